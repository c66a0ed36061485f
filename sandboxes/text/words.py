"""Common English words for Wordle, by length. Written for this project."""

from __future__ import annotations

_FOUR = """
able acid also area army away baby back bake ball band bank barn base bath beam bean bear beat bell belt bend bird
bite blue boat body bold bone book boot born both bowl bulb burn bush busy cake calm camp card care cart case cash
cave chef chin city clap clay club coal coat coin cold cook cool corn cost crab crop crow cube dark date dawn deck
deep deer desk dish door down draw drop drum dusk dust duty each earn east easy edge face fact fair fall farm fast
fern file film find fire fish five flag flat flow foam fold food foot fork four free frog fuel full game gate gift
girl give glad glue goal goat gold good gray grow hail hair half hall hand hard harp have heat help herb hero hill
hive hold hole home hook hope horn hour huge idea inch iron item jail join jump just keep kind king kite knee knot
lace lake lamb lamp land lane last late lawn lead leaf lean left lens life lift lime line lion list long look loud
luck lung made mail main make many maps mark mask meal meat milk mill mind mine mint mist moon more moss most moth
move much nail name navy near neck nest news nice nine node none noon nose note oath obey oven over pack page paid
pair palm park part path pear pick pier pile pine pink pipe plan play plot plum poem pole pond pony pool port post
pump pure rail rain rest rice rich ride ring rise road rock role roof room root rope rose ruby rule rush safe sail
salt sand save seal seat seed ship shoe shop shut sign silk sing sink size skin slow snow soap sock soft soil song
soup spot star stem step stop swan swim tail talk tall tank tape taxi team tent test text thin tide tile time tiny
toad tool town tree trip tube tune turn twin unit vase verb very view vine walk wall warm wash wave west wide wild
wind wine wing wire wise wolf wood wool word work yard year zero zone
"""

_FIVE = """
about above actor adapt admit adult after again agent agree ahead alarm album alert alike alive allow alone along
angel anger angle angry ankle apart apple apply arena argue arise armor arrow aside asset audio avoid awake award
aware badge baker basic basin basis beach beard beast begin below bench berry birth black blade blame blank blend
bless blind block blood bloom board boost booth bound brain brake brand brave bread break brick bride brief bring
broad broom brown brush build bunch burst cabin cable camel canal candy cargo carry carve catch cause chain chair
chalk charm chart chase cheap check cheek cheer chess chest chief child chill choir chord civil claim clash class
clean clear clerk click cliff climb clock close cloth cloud coach coast coral couch count court cover crack craft
crane crash cream creek crime crisp cross crowd crown crust curve cycle daily dairy dance death delay depth diary
dirty donor doubt dough dozen draft drain drama dream dress drift drill drink drive eager eagle early earth elbow
elder elect empty enemy enjoy enter entry equal error essay event every exact exist extra faint faith false fancy
favor feast fence fever fewer field fifth fifty fight final first flame flash fleet flesh float flock flood floor
flour fluid flute focus force forge forty found frame fresh front frost fruit funny giant glass globe glory glove
grace grade grain grand grant grape graph grass great green greet grief group grown guard guess guest guide habit
happy harsh heart heavy hedge honey honor horse hotel house human humor ideal image index inner input irony issue
ivory jewel joint judge juice knife knock label labor large laser later laugh layer learn lemon level light limit
linen liver local lodge logic loose lower loyal lucky lunch magic major maple march match mayor medal melon mercy
merge merit metal meter minor model money month moral motor mount mouse mouth movie music nerve never night noble
noise north novel nurse ocean offer often olive onion opera orbit order other outer owner paint panel paper party
pasta patch peace peach pearl pedal phase phone photo piano piece pilot pitch place plain plane plant plate plaza
point polar porch pound power press price pride prime print prize proof proud pulse pupil queen quick quiet quilt
quite radio raise ranch range rapid ratio reach ready relax reply rider ridge rifle right rigid river roast robin
robot rough round route royal rural salad sauce scale scarf scene scent scope score scout screw seven shade shake
shape share sharp sheep sheet shelf shell shine shirt shock shore short shout sight silly skill skirt sleep slice
slide slope small smart smell smile smoke snack snail snake solar solid solve sound south space spare spark speak
speed spell spend spice spike spoon sport spray squad stack staff stage stain stair stamp stand start state steam
steel steep stick still stock stone store storm story stove straw style sugar sunny sweet swift swing sword table
taste teach thank theme thick thing think third thorn three throw thumb tiger tight title toast today tooth topic
torch total touch tough tower trace track trade trail train treat trend trial tribe trick truck trunk trust truth
tulip twice uncle under union unite upper urban usual valid value video visit vital vivid vocal voice wagon waste
watch water weary wheat wheel where white whole width woman world worry worth wound wrist write wrong yield young
youth zebra
"""

_SIX = """
absent accept across active advice almost always animal annual answer anyone appeal arcade artist asleep august autumn
avenue ballet bamboo banana banker barely barrel basket battle beauty become before behind belief belong beside better
beyond bitter border borrow bottle bottom bounce branch breath breeze bridge bright broken bronze bubble bucket budget
butter button camera canvas carbon career carpet carrot castle cattle center change charge cheese cherry choice choose
church cinema circle clever client closet coffee collar column common copper corner cotton county couple course cousin
create credit crisis custom damage dancer danger decide defend degree demand depend desert design detail dinner direct
doctor dollar domain donkey double dragon driver during easily eighty either empire engine enough escape estate evolve
except expect expert export extend fabric factor fairly family famous farmer father fellow figure finger finish flight
flower follow forest forget formal fossil fourth freeze friend frozen future galaxy garage garden garlic gather gentle
ginger global golden gospel ground growth guitar hammer handle happen harbor health height helmet hidden hockey honest
hunger impact import income indeed indoor insect inside island jacket jungle junior kettle kidney kitten ladder lawyer
leader legend lesson letter likely liquid listen little living lizard locate lumber magnet manage manner marble margin
market master matter meadow medium member memory method middle mirror modern moment monkey mother motion museum mutual
narrow nation native nature nearby nephew normal notice number object office orange orchid outfit oxygen oyster palace
parent parrot pencil people pepper period person picnic pillow planet player pocket poetry policy potato powder prince
prison profit proper public puzzle rabbit random reason recipe record region remain remove repair repeat rescue result
return reward rhythm ribbon rocket sailor salmon sample saving school screen search season second secret select senior
shadow shower signal silent silver simple single sister smooth social source spider spirit spread spring square stable
statue steady stream street string strong studio summer sunset supply switch symbol talent target temple tennis thirty
thread throne ticket timber tissue tongue travel treaty tunnel turkey turtle twelve unique valley velvet vessel violin
vision volume walnut wealth weapon weekly weight window winner winter wisdom wonder wooden yellow zipper
"""

WORDS: dict[int, tuple[str, ...]] = {4: tuple(_FOUR.split()), 5: tuple(_FIVE.split()), 6: tuple(_SIX.split())}
"""Sorted, each word once."""
