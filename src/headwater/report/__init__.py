"""What people look at: tables, progress, pictures."""
