# setup
None

# %%profile p
x = 1 + 1
