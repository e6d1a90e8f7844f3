# setup
import torch, torch.nn as nn, torch.nn.functional as F, time, numpy as np, pandas as pd
torch.manual_seed(0); torch.set_num_threads(1)
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.a = nn.Linear(200, 512); self.b = nn.Linear(512, 512); self.c = nn.Linear(512, 2)
    def forward(self, x): return self.c(F.relu(self.b(F.relu(self.a(x)))))
def train_one_epoch(model, loader, opt):
    model.train(); total = 0.0
    for x, y in loader:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        total += loss.item()
    return total / len(loader)
@torch.no_grad()
def validate(model, loader):
    model.eval(); hits = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
    return hits / len(loader.dataset)

# %%profile p
t0 = time.perf_counter()
df = pd.DataFrame(np.random.rand(8000, 200)); df["y"] = (df[0] + df[1] > 1).astype(int)
X = torch.tensor(df.drop(columns="y").values, dtype=torch.float32); y = torch.tensor(df["y"].values)
t1 = time.perf_counter()
ds = torch.utils.data.TensorDataset(X, y)
tr, va = torch.utils.data.random_split(ds, [6000, 2000])
train_loader = torch.utils.data.DataLoader(tr, batch_size=250, shuffle=True)
val_loader = torch.utils.data.DataLoader(va, batch_size=500)
model = Net(); opt = torch.optim.AdamW(model.parameters())
tt = tv = 0
for epoch in range(2):
    a = time.perf_counter(); l = train_one_epoch(model, train_loader, opt); b = time.perf_counter()
    acc = validate(model, val_loader); c = time.perf_counter(); tt += b - a; tv += c - b
print(f"prep {t1-t0:.3f} train {tt:.3f} val {tv:.3f}")
