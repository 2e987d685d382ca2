_base_ = ["./default.py"]

optim_wrapper = dict(
    type="AmpOptimWrapper",
    dtype="bfloat16",
    optimizer=dict(type="SGD", lr=0.02, momentum=0.9),
)
