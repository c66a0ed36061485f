"""`python -m agentgym` is `agentgym`; so `torchrun -m agentgym train` starts several processes of it."""

from agentgym.cli import main

if __name__ == "__main__":
    main()
