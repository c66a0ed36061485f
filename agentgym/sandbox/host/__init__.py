"""The host's side of a sandbox: sends requests to the guest over one socket, and implements the sandbox contract.

guest_backend.py   the base of backends that make guests; host_python.py, what sandboxes get of the host's Python
guest_sandbox.py   the Sandbox contract               guest_handle.py  one guest: its link and its lifeline
channel.py         long-lived processes               replies.py       checks the replies of a hostile guest
snapshots.py       files out of a sandbox and back    trees.py         the files of a snapshot, and its id
sessions.py        runs the code of sessions again
"""
