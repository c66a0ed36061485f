"""Bridges to other people's interfaces, both ways. Each module needs its own library; none other does."""
