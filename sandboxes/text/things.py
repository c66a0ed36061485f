"""The knowledge base of twenty questions: things, each with all its properties. Written for this project."""

from __future__ import annotations

_FIRST_SHELF = """
dog: animal barks eats-meat four-legged fur indoors mammal pet tail
cat: animal climbs eats-meat four-legged fur indoors mammal pet tail
rabbit: animal eats-plants four-legged fur jumps mammal pet
mouse: animal eats-plants four-legged fur indoors mammal small tail
horse: animal eats-plants farm four-legged fur hooves large mammal ridden tail
cow: animal eats-plants farm four-legged fur gives-milk hooves horns large mammal tail
goat: animal climbs eats-plants farm four-legged fur gives-milk hooves horns mammal
sheep: animal eats-plants farm four-legged fur hooves mammal wool
pig: animal eats-meat eats-plants farm four-legged hooves mammal
lion: animal eats-meat four-legged fur large mammal tail wild
tiger: animal eats-meat four-legged fur large mammal stripes tail wild
zebra: animal eats-plants four-legged fur hooves large mammal stripes tail wild
bear: animal climbs eats-meat eats-plants four-legged fur large mammal wild
elephant: animal eats-plants four-legged large mammal ridden tail trunk wild
giraffe: animal eats-plants four-legged fur hooves horns large long-neck mammal tail wild
kangaroo: animal eats-plants fur jumps large mammal tail wild
monkey: animal climbs eats-plants fur mammal tail wild
bat: animal flies fur mammal small wild wings
whale: animal large lives-in-water mammal swims tail wild
dolphin: animal eats-meat jumps large lives-in-water mammal swims tail wild
shark: animal eats-meat fish large lives-in-water swims tail wild
salmon: animal eaten fish jumps lives-in-water swims tail wild
goldfish: animal fish indoors lives-in-water orange pet small swims
eagle: animal bird eats-meat feathers flies lays-eggs wild wings
penguin: animal bird eats-meat feathers lays-eggs swims wild wings
chicken: animal bird eaten farm feathers lays-eggs wings
duck: animal bird eaten feathers flies lays-eggs swims wings
owl: animal bird eats-meat feathers flies lays-eggs night wild wings
parrot: animal bird feathers flies green lays-eggs pet wings
ostrich: animal bird feathers large lays-eggs long-neck wild wings
frog: animal green jumps lays-eggs small swims wild
snake: animal eats-meat lays-eggs long wild
turtle: animal four-legged lays-eggs shell slow swims wild
crocodile: animal eats-meat four-legged large lays-eggs swims tail wild
snail: animal lays-eggs shell slow small wild
bee: animal flies insect makes-honey small stings stripes wings
ant: animal insect six-legged small wild
butterfly: animal colourful flies insect small wings
spider: animal eight-legged indoors small wild
crab: animal claws eaten lays-eggs lives-in-water shell
apple: eaten fruit grows-on-tree plant red round sweet
banana: eaten fruit grows-on-tree long plant sweet yellow
orange: eaten fruit grows-on-tree orange plant round sweet
lemon: eaten fruit grows-on-tree plant sour yellow
cherry: eaten fruit grows-on-tree plant red round small sweet
peach: eaten fruit grows-on-tree plant round soft sweet
pear: eaten fruit green grows-on-tree plant sweet
grape: eaten fruit green plant round small sweet
strawberry: eaten fruit grows-near-ground plant red small sweet
pineapple: eaten fruit grows-near-ground large plant sweet yellow
watermelon: eaten fruit green grows-near-ground large plant round sweet
coconut: brown eaten fruit grows-on-tree hard plant round
tomato: eaten fruit plant red round soft
carrot: eaten grows-under-ground long orange plant vegetable
potato: brown eaten grows-under-ground plant round vegetable
onion: eaten grows-under-ground plant round sharp-taste vegetable
cabbage: eaten green grows-near-ground leaves plant round vegetable
corn: eaten long plant vegetable yellow
mushroom: brown eaten grows-near-ground small soft vegetable
tree: grows-near-ground large leaves plant wild wood
rose: flower garden plant red thorns
sunflower: flower garden large plant yellow
grass: garden green grows-near-ground plant
cactus: desert green plant thorns
bread: baked brown eaten food soft
cake: baked eaten food soft sweet
cookie: baked eaten food round small sweet
pizza: baked eaten food hot round
cheese: eaten food from-milk yellow
butter: eaten food from-milk soft yellow
ice-cream: cold eaten food from-milk soft sweet
milk: drink food from-milk white
coffee: brown drink food hot
tea: drink food hot leaves
egg: eaten food from-animal shell small white
honey: eaten food from-animal sweet yellow
rice: eaten food plant small white
soup: drink eaten food hot
salt: eaten food mineral small white
chocolate: brown eaten food sweet
chair: four-legged furniture indoors made sat-on wood
table: four-legged furniture indoors made wood
bed: furniture indoors large made slept-in soft wood
sofa: furniture indoors large made sat-on soft
lamp: electric gives-light indoors made
candle: burns gives-light hot indoors made
mirror: glass indoors made
window: glass made part-of-house
door: made part-of-house wood
clock: indoors made round shows-time
book: indoors made paper read
newspaper: made paper read thrown-away
pencil: long made small wood writes
pen: long made plastic small writes
scissors: cuts made metal small
knife: cuts kitchen long made metal
fork: kitchen long made metal
spoon: kitchen long made metal round
cup: holds-drink kitchen made small
bottle: glass holds-drink kitchen made
plate: kitchen made round
pot: hot kitchen made metal
oven: electric hot kitchen large made metal
refrigerator: cold electric kitchen large made
computer: electric indoors made screen
television: electric indoors large made screen
telephone: electric made screen small talks
camera: electric made small takes-pictures
hammer: garage made metal wood
saw: cuts garage made metal
ladder: climbed garage long made
umbrella: against-rain carried cloth made
shirt: cloth made worn
hat: cloth made on-head worn
shoe: leather made on-feet pair worn
sock: cloth made on-feet pair worn
glove: cloth made on-hands pair worn
coat: cloth large made warm worn
blanket: cloth indoors large made warm
pillow: cloth made slept-in soft
towel: bathroom cloth made
soap: bathroom made small
toothbrush: bathroom long made plastic small
key: made metal opens small
coin: made metal money round small
ball: made round thrown toy
doll: indoors made toy
kite: flies made paper toy
balloon: flies made round toy
rope: long made ties
"""

_SECOND_SHELF = """
piano: indoors instrument keys large made music strings wood
guitar: carried instrument made music plucked strings wood
violin: bowed carried instrument made music small strings wood
cello: bowed instrument large made music strings wood
harp: instrument large made music plucked strings
flute: blown carried instrument long made metal music
trumpet: blown carried instrument loud made metal music
trombone: blown carried instrument long loud made metal music
clarinet: blown carried instrument long made music wood
recorder: blown carried instrument made music small wood
saxophone: blown carried instrument made metal music
drum: hit instrument loud made music round
xylophone: hit instrument made music wood
triangle: hit instrument made metal music small
bell: hit loud made metal music
organ: church instrument keys large made music
accordion: carried instrument keys made music
harmonica: blown instrument made metal music small
car: carries-people engine four-wheeled made road vehicle wheels
bus: carries-people engine four-wheeled large made road vehicle wheels
truck: carries-goods engine large made road vehicle wheels
bicycle: carries-people made road two-wheeled vehicle wheels
motorcycle: carries-people engine loud made road two-wheeled vehicle wheels
train: carries-goods carries-people engine large long made rails vehicle wheels
tram: carries-people engine large made rails road vehicle wheels
subway: carries-people engine large made rails under-ground vehicle wheels
airplane: carries-people engine flies large made vehicle wings
helicopter: carries-people engine flies loud made vehicle
rocket: engine flies large loud made space vehicle
boat: carries-people made small vehicle water
ship: carries-goods carries-people engine large made vehicle water
submarine: engine large made under-water vehicle water
canoe: carries-people long made small vehicle water wood
sled: carries-people made snow vehicle wood
tractor: engine farm four-wheeled made vehicle wheels
scooter: carries-people made small two-wheeled vehicle wheels
skateboard: four-wheeled made small vehicle wheels wood
house: building lived-in made part-of-town
castle: building large lived-in made old stone
church: bells building large made old
school: building children large learnt-in made
hospital: building doctors large made
library: books building learnt-in made
museum: building large made shows-things
theater: building made shows-things stage
factory: building large machines made
barn: animals-inside building farm made wood
stable: animals-inside building farm horses made
lighthouse: building by-the-sea gives-light made tall
bridge: crosses-water large made stone
tower: building made old stone tall
skyscraper: building glass large made tall
tent: carried cloth lived-in made
igloo: building cold lived-in made round snow
windmill: building made tall turns wind
stadium: building large made round sports
airport: building large made planes
"""


def _read(text: str) -> dict[str, frozenset[str]]:
    lines = (line.partition(": ") for line in text.strip().split("\n"))
    return {thing: frozenset(properties.split()) for thing, _, properties in lines}


SHELVES = (_read(_FIRST_SHELF), _read(_SECOND_SHELF))
"""Properties by thing: first animals, food and household things; then instruments, vehicles and buildings."""
THINGS = SHELVES[0] | SHELVES[1]
PROPERTIES = tuple(sorted(frozenset().union(*THINGS.values())))
