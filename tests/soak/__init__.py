"""The campaign: kills, damaged files and bad inputs at random, each repeatable by its number."""
