"""What runs inside the sandbox: it starts the display and the programs, acts, and looks. Standard library only."""
