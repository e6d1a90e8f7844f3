# setup
import asyncio, time

# %%profile p
t0 = time.perf_counter()
await asyncio.sleep(0.4)
async def tick(n):
    s = 0
    for i in range(n):
        await asyncio.sleep(0.01)
        s += sum(range(20_000))
    return s
a, b = await asyncio.gather(tick(30), tick(30))
print(f"{time.perf_counter()-t0:.3f}")
