"""Asynchronous training: play episodes while the model trains, with weights of bounded age."""
