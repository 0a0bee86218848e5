"""How fast is Headwater, against what a user would pick instead and against what the machine can
do?

``python -m benchmarks`` (``make bench``) answers in one run, with ratios. Every contender runs in
processes of its own, the peers in virtual environments of their own that the command sets up; all
do the same work, their results are compared before anything is timed, and their rounds take turns,
so that a machine that slows down slows everybody down.

| file | concept |
|---|---|
| `workloads` | what is computed: network, clients, samples, batches; data and first weights |
| `networks` | the networks and losses, in PyTorch |
| `reference` | the right answer of one round, in double precision |
| `contenders` | who takes part: peers, the limit of the machine, Headwater; and what each can do |
| `environments` | a pinned virtual environment per peer |
| `peers/` | one small runner per contender, all speaking `peers/gate` |
| `runner` | a contender's process as seen from here: start, ask for rounds, pause, memory, end |
| `measure` | check, then rounds in turns |
| `machine`, `table`, `picture` | what was measured on what, for people and for programs |
| `counting` | what a round costs, counted and not timed: the guard in the tests |
| `growth` | how cost grows with clients, model size and memory capacity |
"""
