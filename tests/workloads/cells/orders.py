# setup
import pandas as pd, numpy as np, time
rng = np.random.default_rng(1)
n = 20_000
orders = pd.DataFrame({"cust": rng.integers(0, 5000, n), "price": rng.gamma(2, 20, n).round(2),
                       "sku": ["SKU-%05d" % i for i in rng.integers(0, 9999, n)]})
cust = pd.DataFrame({"cust": range(5000), "city": rng.choice(["Oslo", "Lima", "Pune"], 5000)})

# %%profile p
t0 = time.perf_counter()
big = orders.merge(cust, on="cust")
t1 = time.perf_counter()
big["label"] = big.apply(lambda r: f"{r['city']}-{r['sku'][-3:]}-{int(r['price'])}", axis=1)
t2 = time.perf_counter()
big["short"] = big["sku"].str.lower().str.replace("sku-", "", regex=False)
t3 = time.perf_counter()
top = big.groupby("city")["price"].agg(["mean", "sum"]).sort_values("sum")
print(f"merge {t1-t0:.3f} apply {t2-t1:.3f} str {t3-t2:.3f}")
