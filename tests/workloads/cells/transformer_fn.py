# setup
import torch, torch.nn as nn, time
torch.manual_seed(0)
enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 256, batch_first=True), 2)
emb = nn.Embedding(500, 128); out = nn.Linear(128, 500)
params = [*enc.parameters(), *emb.parameters(), *out.parameters()]
tokens = torch.randint(0, 500, (400, 33))

# %%profile p
def evaluate():
    enc.eval()
    with torch.inference_mode():
        x = tokens[:128]
        l = nn.functional.cross_entropy(out(enc(emb(x[:, :-1]))).flatten(0, 1), x[:, 1:].flatten())
    enc.train()
    return l.item()
def fit(epochs):
    opt = torch.optim.AdamW(params, 1e-3); te = 0.0
    for ep in range(epochs):
        for i in range(0, 400, 40):
            x = tokens[i:i+40]
            logits = out(enc(emb(x[:, :-1])))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())
            opt.zero_grad(); loss.backward(); opt.step()
        t = time.perf_counter(); evaluate(); te += time.perf_counter() - t
    return te
t0 = time.perf_counter()
te = fit(3)
print(f"fit {time.perf_counter()-t0:.3f} evaluate {te:.3f}")
