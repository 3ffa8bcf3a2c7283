"""Training on a Dask cluster (extra `dask`): workers hold rows and what is made of them, this process weights and
structure. The one room that imports dask."""
