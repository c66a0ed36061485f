"""Names of functions: too many for a policy to memorise, so that it must read the name in the task."""

# ruff: noqa: SIM905 - a list of words is easier to read as one string that is split

NAMES = tuple(
    """
    abridge adapt adjust align allot amend annex appoint arrange assign attach average balance bargain bind boil
    bolt bond bounce bracket bridge bundle carve cast chain chart check chop cite clamp clean clear clip close
    collect comb combine compare condense connect convert cook cool couple cover crop crush dam deal deduce define
    deliver digest dip direct distribute divide dose drain draw drill drop dust earn edge elect empty enlarge enter
    erase estimate even_out extract fasten feed fetch figure fill filter_out find_out finish fit flip float fold
    follow forge form frame freeze fuse gain gather glean grind group grow guard guide halve hand_in harvest hatch
    heap hold hunt imply infer invert iron isolate join_up judge keep knead knit label ladle lay_out lift limit
    line_up link_up list_up load lock make_up mash match melt mend mill mine mirror mix model mount move narrow nest
    note obtain offer open_up orbit outline pack pair pare part_with pass_on patch_up pave peel pick pile pin place
    plait plan plant plot plough pluck point polish pool pour praise predict press prick probe prune pull pump
    quarry quilt rake rank reap recall reckon reduce refine relate remove repair report rescue rest review rinse
    ripen roast roll rotate round_up sail salt sample save scan scatter score scrape screen seal seek send separate
    serve settle shape share shear shift shorten sieve sift skim slice_up smooth soak solve sort_out sow spin
    split_up spread squeeze stack steer stir stitch store stretch strip survey sweep swing take_out tame tap teach
    thread_on thresh tidy tie till tilt toss trace_out train transfer trap trim turn tweak unfold unite unpack
    update value vary visit wash watch weave weed weigh whip wind wipe work_out wrap yield_up
    """.split()
)
UNSEEN = tuple(
    """
    blend brush cluster cut_off distil drape dwindle embed furnish glance grade hoist kindle launder measure merge
    mow nudge pair_up ponder quench shuffle sprinkle swap tally thin thwart twist usher weed_out whittle widen
    """.split()
)
"""Names that only held-out tasks have."""
