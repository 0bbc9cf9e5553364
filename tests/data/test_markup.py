from inspect import cleandoc

from minibert.data.markup import is_prose, paragraphs, plain

NUMPY_DOCSTRING = cleandoc("""
    total(a, axis=None)

    Return the *total* of the elements
    of ``a`` [1]_.

    Parameters
    ----------
    a : array_like
        Elements to add.
    axis, out : int, optional
        Axis along which :func:`numpy.sum` adds.
        By default all are added.

    .. versionadded:: 1.7

       If this is negative, it counts from the last.

    See Also
    --------
    mean : The average of all.

    Notes
    -----
    Arithmetic is modular::

        c = 5
        This is code.

    So there is `no error <https://example.com/x>`_ on overflow.

    .. math:: E = mc^2
       Nor is this text.

    - First item, which goes
      on here.
    - Second item.

    ======  =======
    name    meaning
    ======  =======
    one     a thing

    >>> total([1])
    1

    Last words.

    Examples
    --------
    This is left out too.

    References
    ----------
    .. [1] A Book, Page 3.
""")


def test_prose_is_taken_out_of_a_numpy_docstring():
    assert [text for text in paragraphs(NUMPY_DOCSTRING) if is_prose(text)] == [
        "Return the total of the elements of a.",
        "Elements to add.",
        "Axis along which numpy.sum adds. By default all are added.",
        "If this is negative, it counts from the last.",
        "So there is no error on overflow.",
        "First item, which goes on here.",
    ]
    # Kept as paragraphs, though too short to pass for prose:
    assert {"Second item.", "Last words."} <= set(paragraphs(NUMPY_DOCSTRING))


def test_headings_of_plain_documents_are_dropped():
    text = (
        "The break statement\n*******************\n\n   stmt ::= break\n\nIt is built-\nin code.\n"
    )
    assert [text for text in paragraphs(text) if is_prose(text)] == ["It is built-in code."]


def test_inline_markup():
    assert plain("the **kwargs and *args of 2 * 3 * 4") == "the **kwargs and *args of 2 * 3 * 4"
    assert plain("**bold** and *slanted words*, `a`__") == "bold and slanted words, a"
    assert plain(":class:`~a.B`, :pep:`8 <x>` |sub| \\*x") == "a.B, 8 sub *x"
    assert plain("load a .npy file , then [2] go .") == "load a .npy file, then go."


def test_prose():
    for good in ["Return the size.", "Is it so?", '"Yes", he said.', "fft is a function."]:
        assert is_prose(good), good
    for bad in ["x = y + 1; z = w.", "Two words.", "no end", "-> a b c.", "a.b(c) d[e] f{g} h."]:
        assert not is_prose(bad), bad
