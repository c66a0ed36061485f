"""Values of tokens, learnt from stored episodes, and ways to use them in sampling: ILQL, B-Coder and Q#.

networks.py        networks that predict the value of the next token
fitting.py         action values as in ILQL, distributions of the return as in Q#
conservative_q.py  values bootstrapped only from likely tokens, and episodes ranked by them: B-Coder
guided.py          the logit hook `value_guided`
stages.py          the stages that learn such values, and those that measure the policy with them
"""
