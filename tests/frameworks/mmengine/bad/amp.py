_base_ = ["./default.py"]

optim_wrapper = dict(
    _delete_=True,
    type="AmpOptimWrapper",
    dtype="float16",
    optimizer=dict(type="SGD", lr=0.02, momentum=0.9),
)
