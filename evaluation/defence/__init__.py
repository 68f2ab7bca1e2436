"""Self-defence: the gate steps back when outcomes get worse, and comes forward when they recover.

`windows` folds runs into windows of a bounded size, `verdicts` says what a closed window shows, on intervals and not
on bare means, and `machine` counts verdicts: two in a row trip a defence, two in a row heal it. `watch` joins the three
for one defence of one profile. All of it is values in, values out; `docs/decisions/0022-self-defence.md` says why.
"""
