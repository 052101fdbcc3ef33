def f(x, y, q, /):
    pass
