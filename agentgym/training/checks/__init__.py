"""Check before anything heavy starts that a run can do what its recipe says."""
