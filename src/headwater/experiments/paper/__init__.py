"""The paper's experiments: each table a study, stored run by run, and its claims checked against
them."""
