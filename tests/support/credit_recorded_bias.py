"""Bias as measured: distance from the true gradient in units of its length.

For groups of 2, 3 and 4 (in the two rooms of back_and_forth 2 and 3), by exact sums over every possible group.
The critics are the wrong ones of agentgym.testing.exact.
The key is the name of the estimator and the options that are set.
"""

RECORDED = {
    ("reinforce_pp",): {
        "flip": (0.9954, 0.9070, 0.8282),
        "stop_or_go": (0.8118, 0.8378, 0.8483),
        "lucky_tool": (1.2410, 0.9277, 0.6625),
        "back_and_forth": (0.8442, 0.6653),
    },
    ("rebn",): {
        "flip": (0.8017, 0.7133, 0.6633),
        "stop_or_go": (0.9901, 1.0211, 1.0019),
        "lucky_tool": (1.2474, 0.9598, 0.7095),
        "back_and_forth": (0.6028, 0.4184),
    },
    ("opo",): {
        "flip": (0.5926, 0.4144, 0.3170),
        "stop_or_go": (0.4717, 0.3081, 0.2288),
        "lucky_tool": (0.5365, 0.3677, 0.2798),
        "back_and_forth": (0.5294, 0.3585),
    },
    ("otb",): {
        "flip": (0.6927, 0.5288, 0.4220),
        "stop_or_go": (0.6669, 0.4874, 0.3804),
        "lucky_tool": (0.5578, 0.3863, 0.2977),
        "back_and_forth": (0.6303, 0.4609),
    },
    ("mt_grpo_two_segment",): {
        "flip": (0.1611, 0.8193, 1.2304),
        "stop_or_go": (0.5373, 0.7629, 0.9613),
        "lucky_tool": (0.8758, 0.6615, 0.4766),
        "back_and_forth": (1.0011, 0.7505),
    },
    ("mt_grpo_two_segment", ("scale", "none")): {
        "flip": (0.5945, 0.4618, 0.3966),
        "stop_or_go": (0.5422, 0.4004, 0.3355),
        "lucky_tool": (0.5296, 0.3916, 0.3330),
        "back_and_forth": (0.6114, 0.4819),
    },
    ("gtpo",): {
        "flip": (0.5627, 0.3142, 0.1564),
        "stop_or_go": (0.3233, 0.3284, 0.4658),
        "lucky_tool": (1.0729, 0.9333, 0.7504),
        "back_and_forth": (0.9096, 0.6306),
    },
    ("kevin",): {
        "flip": (2.6492, 2.7357, 2.7749),
        "stop_or_go": (1.4559, 1.5308, 1.5656),
        "lucky_tool": (1.5778, 1.3340, 1.1010),
        "back_and_forth": (2.9310, 2.7594),
    },
    ("hybrid",): {
        "flip": (0.7149, 0.5210, 0.4165),
        "stop_or_go": (0.1937, 0.5102, 0.7527),
        "lucky_tool": (0.9169, 0.6846, 0.4493),
        "back_and_forth": (0.9380, 0.7568),
    },
    ("gigpo",): {
        "flip": (0.0817, 0.6501, 1.0046),
        "stop_or_go": (0.7296, 1.4961, 1.8595),
        "lucky_tool": (1.1443, 0.8671, 0.5164),
        "back_and_forth": (1.2694, 0.5780),
    },
    ("gigpo", ("baseline", "loo"), ("gamma", 1.0), ("scale", "none")): {
        "flip": (0.6697, 0.8236, 0.9098),
        "stop_or_go": (0.9397, 0.9549, 0.9660),
        "lucky_tool": (0.9827, 0.9881, 0.9924),
        "back_and_forth": (0.8221, 0.8766),
    },
    ("hgpo",): {
        "flip": (0.5358, 0.2044, 0.0716),
        "stop_or_go": (0.2963, 0.5570, 0.6732),
        "lucky_tool": (1.1136, 0.9521, 0.7730),
        "back_and_forth": (1.3964, 0.8106),
    },
    ("rtmc",): {
        "flip": (0.7964, 0.6910, 0.6170),
        "stop_or_go": (0.7619, 0.6396, 0.5582),
        "lucky_tool": (0.7529, 0.6190, 0.5280),
        "back_and_forth": (0.7780, 0.6202),
    },
    ("gdpo",): {
        "flip": (0.7038, 1.3015, 1.6272),
        "stop_or_go": (0.7445, 1.2683, 1.5207),
        "lucky_tool": (1.0931, 1.0897, 1.0320),
        "back_and_forth": (0.9211, 0.6589),
    },
    ("agentrl", ("weigh", "turns")): {
        "flip": (0.1438, 0.1006, 0.2190),
        "stop_or_go": (0.5239, 0.8143, 0.8949),
        "lucky_tool": (1.1108, 0.9382, 0.7412),
        "back_and_forth": (0.6542, 0.3430),
    },
    ("reinforce_pp_baseline", ("weigh", "tokens")): {
        "flip": (0.1235, 0.1135, 0.2338),
        "stop_or_go": (0.3993, 0.6439, 0.7492),
        "lucky_tool": (1.1653, 0.9522, 0.7303),
        "back_and_forth": (0.8045, 0.5074),
    },
    ("turn_gae", ("lam", 0.9)): {
        "flip": (0.0884, 0.0884, 0.0884),
        "stop_or_go": (0.0699, 0.0699, 0.0699),
        "lucky_tool": (0.0466, 0.0466, 0.0466),
        "back_and_forth": (0.0542, 0.0542),
    },
    ("turn_gae", ("lam", 0.0)): {
        "flip": (0.5821, 0.5821, 0.5821),
        "stop_or_go": (0.6962, 0.6962, 0.6962),
        "lucky_tool": (0.4663, 0.4663, 0.4663),
        "back_and_forth": (0.6778, 0.6778),
    },
    ("ragen",): {
        "flip": (0.1481, 0.1481, 0.1481),
        "stop_or_go": (0.0742, 0.0742, 0.0742),
        "lucky_tool": (0.0443, 0.0443, 0.0443),
        "back_and_forth": (0.0912, 0.0912),
    },
    ("hrpo",): {
        "flip": (2.3131, 2.6967, 2.9549),
        "stop_or_go": (0.9780, 1.2778, 1.5189),
        "lucky_tool": (0.9660, 0.6052, 0.2899),
        "back_and_forth": (1.0569, 1.0834),
    },
    ("user_rl",): {
        "flip": (0.4105, 0.4788, 0.5453),
        "stop_or_go": (0.3217, 0.3647, 0.5158),
        "lucky_tool": (1.0654, 0.9301, 0.7566),
        "back_and_forth": (0.7723, 0.5288),
    },
    ("user_rl", ("turn_credit", "return_to_go")): {
        "flip": (0.8989, 1.1928, 1.3935),
        "stop_or_go": (1.1205, 1.3223, 1.4263),
        "lucky_tool": (1.1831, 1.1141, 0.9608),
        "back_and_forth": (0.2037, 0.8542),
    },
    ("user_rl", ("turn_credit", "exponential")): {
        "flip": (0.5909, 0.7398, 0.8386),
        "stop_or_go": (0.4607, 0.4925, 0.5991),
        "lucky_tool": (1.0946, 0.9867, 0.8286),
        "back_and_forth": (0.6814, 0.4718),
    },
}
