"""Planned rows in random worlds: runs that stop anywhere and continue with other numbers of ranks."""

WORLDS = [1, 2, 3, 4, 8]


def check_random_worlds(draw, wanted, make, rows_of, sizes, most, rounds):
    """`wanted` has all rows, `make(rank, world, batch)` returns batches of `batch` rows, `rows_of` the rows of
    one. Each of the `rounds` begins at the first row; a run takes at most `most` batches of one of the `sizes`."""
    for _ in range(rounds):
        state, done = None, []
        while len(wanted) - len(done) >= 60:
            world, batch = draw.choice(WORLDS), draw.choice(sizes)
            batches = draw.randrange(min(most, (len(wanted) - len(done)) // (world * batch) + 1))
            ranks, states = [], set()
            for rank in range(world):
                with make(rank, world, batch).start(epoch=0) as it:
                    if state is not None:
                        it.load_state_dict(state)
                    ranks.append([row for _ in range(batches) for row in rows_of(next(it))])
                    saved = it.state_dict()
                    states.add(str(saved))
            assert len(states) == 1, "ranks differ in where they are"
            state = saved
            done += [row for rows in zip(*ranks) for row in rows]
        assert done == wanted[:len(done)]
