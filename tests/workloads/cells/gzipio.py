# setup
import gzip, json, os, random, re, time
random.seed(0)
rows = [{"id": i, "name": f"user{i % 997}", "tags": [random.choice("abcdef") for _ in range(5)], "v": random.random()} for i in range(60_000)]

# %%profile p
t0 = time.perf_counter()
with gzip.open("rows.jsonl.gz", "wt") as f:
    for r in rows:
        f.write(json.dumps(r) + "\n")
t1 = time.perf_counter()
with gzip.open("rows.jsonl.gz", "rt") as f:
    back = [json.loads(line) for line in f]
t2 = time.perf_counter()
text = " ".join(r["name"] for r in back)
words = re.findall(r"user\d*7\b", text)
counts = {}
for w in words:
    counts[w] = counts.get(w, 0) + 1
t3 = time.perf_counter()
print(f"write {t1-t0:.3f} read {t2-t1:.3f} text {t3-t2:.3f}")
