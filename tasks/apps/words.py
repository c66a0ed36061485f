"""Names and words for the records."""

FIRST = (
    *("Ada", "Arne", "Berta", "Birk", "Carla", "Cleo", "Dana", "Dirk", "Edda", "Emil", "Fanny", "Finn", "Greta", "Gus"),
    *("Hanna", "Hugo", "Ida", "Ivar", "Jana", "Jonas", "Kara", "Knut", "Lena", "Linus", "Mara", "Mats", "Nora", "Nils"),
    *(
        "Olga",
        "Otto",
        "Paula",
        "Per",
        "Quinn",
        "Ragna",
        "Rolf",
        "Selma",
        "Sven",
        "Tilda",
        "Tore",
        "Ulla",
        "Vera",
        "Yrsa",
    ),
)
LAST = (
    *("Abel", "Berg", "Brandt", "Dahl", "Ekman", "Falk", "Frost", "Grahn", "Hall", "Holm", "Jansen", "Kling", "Krantz"),
    *(
        "Lang",
        "Lind",
        "Lund",
        "Moller",
        "Nord",
        "Nyman",
        "Palm",
        "Quist",
        "Rask",
        "Roos",
        "Sand",
        "Sjo",
        "Skog",
        "Stark",
    ),
    *("Strand", "Thorn", "Vik", "Voss", "Wahl", "West", "Wik", "Zander"),
)
CITIES = ("Aalen", "Bergen", "Celle", "Dover", "Evora", "Ghent", "Hilo", "Izola", "Jena", "Kotor", "Lodz", "Mons")
PRODUCTS = (
    *("bread knife", "desk lamp", "door mat", "egg timer", "fruit bowl", "garden hose", "hand drill", "ink pen"),
    *("jam jar", "kite", "linen towel", "milk pan", "napkin ring", "oil can", "paint brush", "quilt", "rain coat"),
    *("salt mill", "tea pot", "umbrella", "vase", "wall clock", "yarn basket", "zip bag", "bath robe", "cork screw"),
    *("dust pan", "fire tongs", "glass jug", "hat stand", "iron", "juice press"),
)
APPOINTMENTS = (
    *("dentist", "eye test", "haircut", "piano lesson", "tax office", "car service", "chimney sweep", "vaccination"),
    *("passport photo", "choir rehearsal", "parents evening", "blood donation", "ski course", "boat trip"),
)
LOCATIONS = ("Mill Lane 4", "Harbour 12", "Old Square", "North Hall", "Library", "Room 204", "Station cafe", "Tower 3")
UTILITIES = ("North Power", "City Water", "Blue Phone", "Green Rail", "Hill Insurance", "Town Gym", "Daily Paper")
SHOPS = ("Miller Bakery", "Fresh Market", "Book Nook", "Iron Store", "Cafe Luna", "Bike Barn")
TOPICS = (
    *(
        "kitchen plan",
        "summer trip",
        "book club",
        "garden work",
        "boat repair",
        "moving day",
        "cheese fair",
        "old maps",
    ),
    *("chess evening", "film night", "bird walk", "soup kitchen", "paper crane", "stone bridge"),
)
ITEMS = (
    "apples",
    "bread",
    "cheese",
    "dates",
    "eggs",
    "flour",
    "grapes",
    "honey",
    "jam",
    "leeks",
    "milk",
    "nuts",
    "rice",
)
FOLDERS = ("letters", "plans", "recipes", "travel", "house")
SONG_FIRST = ("Amber", "Broken", "Cold", "Distant", "Early", "Faded", "Golden", "Hidden", "Iron", "Lonely", "Midnight")
SONG_SECOND = ("Bridge", "Clouds", "Doors", "Eyes", "Fires", "Garden", "Harbour", "Lights", "Mirror", "River", "Winter")
ARTISTS = ("The Lanterns", "Mira Vale", "Stone Choir", "Paper Boats", "Odd Sundays", "Nine Owls")
PLAYLISTS = ("morning run", "slow dinner", "long drive", "rainy sunday", "focus hours")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
