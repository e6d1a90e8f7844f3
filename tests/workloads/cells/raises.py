# setup
# raises
import time, numpy as np

# %%profile p
a = np.random.rand(800, 800)
for k in range(5):
    a = a @ a / 400
time.sleep(0.2)
b = {"x": 1}["y"]
time.sleep(5)
