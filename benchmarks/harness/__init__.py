"""How a comparison is run: what is computed by whom, checked, timed in turns, and reported."""
