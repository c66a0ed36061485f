"""The kinds of products, their brands and their colours."""

from __future__ import annotations

BRANDS = ("Alto", "Borea", "Cirro", "Delta", "Elmo", "Fjord")
KINDS = (
    *("kettle", "lamp", "chair", "backpack", "blender", "jacket", "helmet", "teapot", "rug", "clock"),
    *("suitcase", "toaster", "mirror", "blanket", "tent", "stool", "radio", "scarf"),
)
COLOURS = ("red", "blue", "green", "white", "black")

NEW_BRANDS = ("Gala", "Halo", "Indra", "Juno", "Kilo", "Lumo")
NEW_KINDS = ("umbrella", "drill", "hammock", "wallet", "pan", "bucket", "skateboard", "vase")
NEW_COLOURS = ("pink", "grey", "yellow", "orange", "purple")
"""Colours of products that no training task has."""
