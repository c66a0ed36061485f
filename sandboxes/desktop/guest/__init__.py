"""The guest: runs in the sandbox, starts the display and the programs, acts, and observes. Standard library only."""
