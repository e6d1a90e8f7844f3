# setup
import asyncio, time, hashlib

# %%profile p
async def fetch(i):
    await asyncio.sleep(0.3)
    return bytes([i]) * 1000
async def digest(b):
    for _ in range(300):
        b = hashlib.sha256(b * 50).digest()
    return b
async def main():
    pages = await asyncio.gather(*[fetch(i) for i in range(20)])
    t = time.perf_counter()
    out = [await digest(p) for p in pages]
    print(f"digest {time.perf_counter()-t:.3f}")
    return out
res = await main()
len(res)
