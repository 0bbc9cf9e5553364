"""Mutation testing of the backward passes: is there any line that no test would miss?

    python -m tests.mutation

Every hand-written backward pass is changed in one place, hundreds of times over: a sign, an axis, a
transpose, a forgotten mask.  Each changed program, a *mutant*, runs the gradient suite in a child
process.  One that the suite rejects is *killed*; one that *survives* is a hole in the suite,
unless it computes the same as the original: then it stands in ``equivalent.py``, with the reason.

General tools such as mutmut and cosmic-ray start one test process per mutant, where forking spares
a thousand starts, and their operators know arithmetic but not this field: turning a scatter-add
into ``+=``, leaving out a mask, swapping an axis.
"""
