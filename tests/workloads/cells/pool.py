# setup
import multiprocessing as mp, math
def primes(n):
    c = 0
    for k in range(2, n):
        for d in range(2, int(math.sqrt(k)) + 1):
            if k % d == 0: break
        else: c += 1
    return c

# %%profile p
with mp.get_context("fork").Pool(2) as pool:
    counts = pool.map(primes, [60_000] * 6)
print(sum(counts))
