"""The resident process: stream, memory and model together, and what it answers when asked."""
