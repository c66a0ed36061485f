"""Asynchronous training: plays episodes while the model trains, with weights of limited age."""
