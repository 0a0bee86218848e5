"""One runner per contender; each is started as a module, with the interpreter of the contender's
environment."""
