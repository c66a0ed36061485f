"""The words of the generated games: themes with their rooms, treasures, people and tools. Our own."""

from __future__ import annotations

from typing import NamedTuple


class Theme(NamedTuple):
    """Words of one theme.

    Attributes:
        boxes: pairs of a box and its key.
        people: pairs of a person and what they ask for.
        barriers: an obstacle on a way, the tool that removes it, and the verb for doing so.
        others: things that no solution needs.
    """

    name: str
    rooms: tuple[str, ...]
    treasures: tuple[str, ...]
    boxes: tuple[tuple[str, str], ...]
    people: tuple[tuple[str, str], ...]
    barriers: tuple[tuple[str, str, str], ...]
    others: tuple[str, ...]


THEMES: tuple[Theme, ...] = (
    Theme(
        "a lighthouse",
        ("boat house", "store", "stair", "lamp room", "kitchen", "cellar", "gallery", "workshop"),
        ("log book", "brass lens", "signal flag"),
        (("sea chest", "rusty key"), ("cabinet", "thin key"), ("strongbox", "silver key")),
        (("keeper", "tobacco pipe"), ("fisherman", "coil of rope"), ("painter", "brush")),
        (("heap of nets", "knife", "cut"), ("rotten plank", "crowbar", "lift"), ("gull nest", "long pole", "push")),
        ("shell", "lantern glass", "oilskin", "cork float"),
    ),
    Theme(
        "an old mill",
        ("yard", "grain loft", "wheel room", "flour store", "pantry", "stable", "attic", "office"),
        ("golden ear", "deed", "mill stone chart"),
        (("flour bin", "iron key"), ("wall safe", "small key"), ("tool chest", "bent key")),
        (("miller", "sack of rye"), ("carter", "horseshoe"), ("cook", "ladle")),
        (("pile of sacks", "hand cart", "move"), ("cobweb", "broom", "sweep"), ("jammed gate", "hammer", "strike")),
        ("sieve", "straw hat", "candle end", "feather"),
    ),
    Theme(
        "a museum",
        ("foyer", "coin room", "whale hall", "archive", "cloakroom", "map room", "roof garden", "studio"),
        ("crown", "meteorite", "first edition"),
        (("glass case", "curator key"), ("locker", "numbered key"), ("drawer", "flat key")),
        (("guard", "cup of coffee"), ("guide", "floor plan"), ("student", "pencil")),
        (("velvet cord", "scissors", "cut"), ("stuck door", "oil can", "loosen"), ("crate", "trolley", "shift")),
        ("brochure", "umbrella", "ticket stub", "sponge"),
    ),
    Theme(
        "a greenhouse",
        ("porch", "palm house", "fern walk", "potting shed", "cactus room", "orchid room", "boiler room", "pond"),
        ("blue orchid", "rare seed", "glass beetle"),
        (("seed box", "copper key"), ("tool locker", "green key"), ("trunk", "garden key")),
        (("gardener", "watering can"), ("botanist", "magnifier"), ("bee keeper", "smoke pot")),
        (("bramble", "shears", "cut"), ("heap of soil", "spade", "dig"), ("ivy curtain", "sickle", "slash")),
        ("flower pot", "glove", "label", "string"),
    ),
    Theme(
        "a mountain station",
        ("platform", "cable room", "canteen", "ski store", "first aid room", "terrace", "sleeping hall", "tunnel"),
        ("summit flag", "old camera", "weather book"),
        (("ski locker", "tin key"), ("first aid box", "red key"), ("post bag", "mail key")),
        (("guide", "climbing map"), ("cook", "sack of potatoes"), ("radio man", "battery")),
        (("snow drift", "shovel", "dig"), ("ice wall", "pick", "break"), ("fallen beam", "winch", "lift")),
        ("mitten", "thermos", "postcard", "whistle"),
    ),
    Theme(
        "a theatre",
        ("stage door", "stage", "wardrobe", "prop room", "orchestra pit", "balcony", "dressing room", "trap room"),
        ("golden mask", "lost script", "conductor baton"),
        (("costume trunk", "stage key"), ("make up box", "tiny key"), ("prop chest", "wooden key")),
        (("actor", "bunch of roses"), ("prompter", "reading glasses"), ("stage hand", "sandwich")),
        (("heavy curtain", "hook", "pull"), ("tangle of wires", "pliers", "cut"), ("painted wall", "pulley", "hoist")),
        ("fan", "wig", "playbill", "paper moon"),
    ),
)
NEW_THEMES: tuple[Theme, ...] = (
    Theme(
        "a river ship",
        ("gangway", "saloon", "engine room", "bridge", "galley", "cabin", "hold", "upper deck"),
        ("captain medal", "ship bell", "sealed letter"),
        (("captain desk", "ivory key"), ("cargo box", "steel key"), ("medicine chest", "white key")),
        (("stoker", "bucket of coal"), ("pilot", "river chart"), ("steward", "silver tray")),
        (("chain", "file", "saw"), ("stack of barrels", "lever", "roll"), ("jammed hatch", "mallet", "knock")),
        ("deck chair", "tea spoon", "playing card", "life belt"),
    ),
    Theme(
        "an observatory",
        ("gate", "dome", "library", "clock room", "dark room", "refectory", "vault", "meadow"),
        ("star atlas", "platinum gear", "comet plate"),
        (("instrument case", "star key"), ("plate cupboard", "black key"), ("wall clock", "winding key")),
        (("astronomer", "spectacles"), ("caretaker", "light bulb"), ("visitor", "sky map")),
        (("dome shutter", "crank", "turn"), ("stack of plates", "barrow", "clear"), ("dust sheet", "tongs", "drag")),
        ("ink pot", "calendar", "wool scarf", "marble"),
    ),
)
