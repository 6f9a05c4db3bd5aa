# expect: ^iteration 1: inertia \d+\.\d\d$
# expect: ^sizes: \[\d+, \d+, \d+\]$
# expect: ^centres:$
import numpy as np

rng = np.random.default_rng(7)
points = np.concatenate([rng.normal(loc=centre, scale=0.5, size=(30, 2)) for centre in (0.0, 4.0, 8.0)])
centres = points[rng.choice(len(points), size=3, replace=False)]
for iteration in range(1, 6):
    distances = ((points[:, np.newaxis, :] - centres[np.newaxis, :, :]) ** 2).sum(axis=2)
    nearest = distances.argmin(axis=1)
    print(f"iteration {iteration}: inertia {distances.min(axis=1).sum():.2f}")
    moved = np.array([points[nearest == k].mean(axis=0) if (nearest == k).any() else centres[k] for k in range(3)])
    if np.allclose(moved, centres):
        break
    centres = moved
print("sizes:", [int((nearest == k).sum()) for k in range(3)])
print("centres:")
print(np.round(centres[np.argsort(centres[:, 0])], 1))
