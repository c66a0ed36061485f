"""`python -m agentgym` runs `agentgym`, so that `torchrun -m agentgym train` can start several processes."""

from agentgym.cli import main

if __name__ == "__main__":
    main()
