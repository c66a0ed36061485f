"""The guest: runs in the sandbox, starts display and programs, acts, and observes. `tree` alone needs more."""
