# setup
import time

# %%profile p
def make(scale):
    cache = {}
    def slow(x):
        if x not in cache:
            time.sleep(0.005)
            cache[x] = x * scale
        return cache[x]
    def total(xs):
        return sum(slow(x % 40) for x in xs)
    return total
f = make(3); g = make(5)
a = f(range(100_000))
b = g(range(400))
print(a, b)
