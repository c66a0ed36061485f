"""The host's end of a guest: requests and replies over one socket, and the sandbox contract spoken over them.

guest_sandbox.py   the contract                       machine.py     one guest and all it lives in
link.py            requests, replies, deadlines       replies.py     reading what a hostile guest says
channel.py         long-lived processes               sessions.py    a session's code, run again
snapshots.py       files out and back                 trees.py       the files of a snapshot, and its id
"""
