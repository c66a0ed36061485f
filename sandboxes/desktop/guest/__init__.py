"""The guest: runs in the sandbox, starts the display and programs, acts, and observes. Only `tree` needs packages."""
