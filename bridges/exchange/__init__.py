"""Task sets, packages of environments and checkpoints: to and from a folder, git, or Hugging Face.

    git+https://host/me/tasks.git@v1#corpus.jsonl      hf:datasets/me/tasks@main      shared/tasks

remotes.py   a folder, a git repository, a repository of Hugging Face      files.py   what is pushed, and how it arrives
command.py   `agentgym push` and `agentgym pull`
"""
