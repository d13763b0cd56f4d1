"""Every figure in the tables of the Fed-alpha-CDP paper, as the text that is printed there."""

from itertools import product

Printed = dict[tuple[str, ...], str]


def _cells(table: str) -> Printed:
    """Read rows `keys: cells` under `names: columns` (levels by a comma); a row of one cell is for "any" column."""
    (_, heading), *rows = (line.split(":") for line in table.strip().splitlines())
    columns = list(product(*(level.split() for level in heading.split(","))))
    cells: Printed = {}
    for path, texts in rows:
        printed = texts.split()
        under = [("any",)] if len(printed) == 1 else columns
        cells |= {(*path.split(), *column): text for column, text in zip(under, printed, strict=True)}
    return cells


ATTACK_COMPARISON = _cells("""
    attack measure:     mnist cifar10 lfw
    dlg success:        0.686 0.754   0.857
    dlg rmse:           0.145 0.109   0.089
    dlg iterations:     18.4  114.5   69.2
    gradinv success:    1     0.985   0.994
    gradinv rmse:       0.122 0.095   0.071
    gradinv iterations: 846   2135    1826
    cpl success:        1     0.973   1
    cpl rmse:           0.120 0.094   0.067
    cpl iterations:     11.5  28.3    25
""")
"""Attacks on the gradient of an example without a defence."""

DATASETS = _cells("""
    what:         mnist  cifar10 lfw     adult  cancer
    training:     60000  50000   2267    36631  426
    validation:   10000  10000   756     12211  143
    features:     28*28  32*32*3 32*32*3 105    30
    classes:      10     10      62      2      2
    client_size:  500    400     300     300    400
    local_steps:  100    100     100     100    100
    batch:        5      4       3       3      4
    rounds:       100    100     60      10     3
    accuracy:     0.9798 0.674   0.695   0.8424 0.993
    milliseconds: 6.8    32.5    30.9    5.1    4.9
""")
"""Datasets and their parameters; accuracy and milliseconds are those of non-private training."""

RESILIENCE = _cells("""
    surface method:        mnist lfw, resilient rmse iterations
    0 non-private:         N 0.1549 6    N 0.2214 24
    0 fed-sdp:             Y 0.6991 300  Y 0.7352 300
    0 fed-sdp-client:      Y 0.6991 300  Y 0.7352 300
    0 quantile:            N 0.4113 9    N 0.3955 28
    0 adaclip:             N 0.4647 9    N 0.3421 27
    0 fed-alpha-cdp-sigma: Y 0.937  300  Y 0.9417 300
    1 non-private:         N 0.1549 6    N 0.2214 24
    1 fed-sdp:             N 0.1549 6    N 0.2214 24
    1 fed-sdp-client:      Y 0.6991 300  Y 0.7352 300
    1 quantile:            N 0.5113 9    N 0.3955 28
    1 adaclip:             N 0.4647 9    N 0.3421 27
    1 fed-alpha-cdp-sigma: Y 0.937  300  Y 0.9417 300
    2 non-private:         N 0.0008 7    N 0.0015 25
    2 fed-sdp:             N 0.0008 7    N 0.0015 25
    2 fed-sdp-client:      N 0.0008 7    N 0.0015 25
    2 quantile:            N 0.1252 9    N 0.3955 28
    2 adaclip:             N 0.2465 9    N 0.3421 27
    2 fed-alpha-cdp-sigma: Y 0.9415 300  Y 0.947  300
""")
"""The attack on every surface of every method."""

POPULATION = _cells("""
    method:        100 1000 10000, 5 10 20 50
    non-private:   0.924 0.954 0.959 0.965  0.977 0.980 0.978 0.978  0.979 0.980 0.980 0.979
    fed-sdp:       0.803 0.823 0.834 0.872  0.925 0.928 0.934 0.937  0.935 0.939 0.941 0.944
    fed-cdp:       0.815 0.831 0.858 0.903  0.951 0.956 0.96  0.964  0.966 0.963 0.968 0.966
    fed-alpha-cdp: 0.854 0.861 0.892 0.921  0.965 0.979 0.977 0.976  0.975 0.978 0.979 0.98
""")
"""Accuracy on mnist by the number of clients and the percentage of them in a round."""

POPULATION_COST: Printed = {
    ("non-private",): "0.0068",
    ("fed-sdp",): "0.0069",
    ("fed-cdp",): "0.0224",
    ("fed-alpha-cdp",): "0.023",
}
"""Seconds of a local iteration, the last column of the same table."""

CLIPPING = _cells("""
    dataset method:        0.1   0.5   1     2     4     8     16    32
    mnist non-private:     0.980
    mnist fed-sdp:         0.883 0.909 0.944 0.940 0.928 0.911 0.656 0.214
    mnist fed-cdp:         0.885 0.914 0.934 0.943 0.956 0.923 0.695 0.248
    mnist fed-alpha-cdp:   0.886 0.917 0.945 0.965 0.979 0.975 0.976 0.976
    cifar10 non-private:   0.674
    cifar10 fed-sdp:       0.275 0.430 0.546 0.609 0.627 0.466 0.269 0.189
    cifar10 fed-cdp:       0.272 0.408 0.568 0.619 0.633 0.611 0.326 0.189
    cifar10 fed-alpha-cdp: 0.286 0.439 0.576 0.628 0.645 0.643 0.649 0.647
    lfw non-private:       0.695
    lfw fed-sdp:           0.248 0.592 0.601 0.635 0.635 0.534 0.257 0.117
    lfw fed-cdp:           0.237 0.582 0.594 0.619 0.649 0.601 0.295 0.104
    lfw fed-alpha-cdp:     0.251 0.594 0.603 0.642 0.683 0.671 0.668 0.654
    adult non-private:     0.843
    adult fed-sdp:         0.751 0.797 0.822 0.819 0.813 0.808 0.755 0.740
    adult fed-cdp:         0.752 0.81  0.822 0.825 0.824 0.761 0.757 0.755
    adult fed-alpha-cdp:   0.755 0.825 0.832 0.838 0.838 0.83  0.831 0.834
    cancer non-private:    0.993
    cancer fed-sdp:        0.958 0.972 0.972 0.972 0.979 0.944 0.937 0.923
    cancer fed-cdp:        0.958 0.965 0.972 0.979 0.979 0.972 0.965 0.951
    cancer fed-alpha-cdp:  0.965 0.972 0.979 0.993 0.986 0.993 0.986 0.986
""")
"""Accuracy by the clipping bound C."""

PRIVACY_FIXED = _cells("""
    method measure:         mnist cifar10 lfw   adult cancer
    non-private accuracy:   0.980 0.674   0.695 0.843 0.993
    fed-sdp epsilon:        0.854 0.854   0.668 0.303 0.147
    fed-sdp accuracy:       0.928 0.627   0.635 0.813 0.979
    fed-cdp epsilon:        0.823 0.823   0.636 0.276 0.138
    fed-cdp accuracy:       0.956 0.633   0.649 0.824 0.979
    fed-alpha-cdp epsilon:  0.823 0.823   0.636 0.276 0.138
    fed-alpha-cdp accuracy: 0.979 0.645   0.683 0.838 0.986
""")
"""Privacy spent in a fixed number of rounds."""

PRIVACY_TARGET = _cells("""
    method measure:        mnist cifar10 lfw   adult cancer
    any accuracy:          0.928 0.627   0.635 0.813 0.979
    fed-sdp rounds:        100   100     60    10    3
    fed-sdp epsilon:       0.854 0.854   0.668 0.303 0.147
    fed-alpha-cdp rounds:  11    67      34    5     1
    fed-alpha-cdp epsilon: 0.285 0.672   0.478 0.184 0.084
""")
"""Privacy spent until a target accuracy, which is the same for any method."""

NOISE_DECAY = _cells("""
    policy measure:       mnist cifar10 lfw   adult cancer
    non-private accuracy: 0.980 0.674   0.695 0.843 0.993
    fed-cdp epsilon:      0.823 0.823   0.636 0.276 0.138
    fed-cdp accuracy:     0.956 0.633   0.649 0.824 0.979
    fed-cdp rounds:       100   100     60    10    3
    constant accuracy:    0.979 0.645   0.683 0.838 0.986
    constant rounds:      100   100     60    10    3
    linear accuracy:      0.981 0.645   0.683 0.844 0.986
    linear rounds:        95    95      55    8     3
    staircase accuracy:   0.982 0.646   0.683 0.847 0.993
    staircase rounds:     95    95      55    8     3
    exponential accuracy: 0.983 0.646   0.684 0.847 0.993
    exponential rounds:   96    96      55    8     3
    cyclic accuracy:      0.979 0.645   0.683 0.844 0.986
    cyclic rounds:        80    80      47    7     3
""")
"""Accuracy by the policy of the noise scale, until the target epsilon that is printed with fed-cdp."""

TIME_COST = _cells("""
    method:              mnist  cifar10 lfw    adult  cancer
    non-private:         0.0068 0.0325  0.0309 0.0051 0.0051
    fed-sdp:             0.0069 0.0338  0.0313 0.0052 0.0051
    fed-cdp:             0.0224 0.1315  0.1124 0.0118 0.0119
    fed-alpha-cdp:       0.0230 0.1321  0.1146 0.0121 0.0120
    fed-alpha-cdp-sigma: 0.0231 0.1321  0.1147 0.0122 0.0120
""")
"""Seconds of a local iteration of one client."""

ADAPTIVE = _cells("""
    method measure:                mnist  cifar10 lfw    adult  cancer
    non-private accuracy:          0.980  0.674   0.695  0.843  0.993
    non-private seconds:           0.0068 0.0325  0.0309 0.0051 0.0051
    non-private resilient:         N
    quantile accuracy:             0.976  0.631   0.659  0.836  0.986
    quantile seconds:              0.0546 0.2125  0.199  0.0192 0.0189
    quantile resilient:            N
    adaclip accuracy:              0.975  0.627   0.651  0.833  0.986
    adaclip seconds:               0.0337 0.1884  0.1523 0.0156 0.0153
    adaclip resilient:             N
    fed-alpha-cdp-sigma accuracy:  0.983  0.646   0.683  0.847  0.993
    fed-alpha-cdp-sigma seconds:   0.023  0.1321  0.1128 0.0123 0.0125
    fed-alpha-cdp-sigma resilient: Y
""")
"""Methods whose clipping bound adapts."""

ACCOUNTANTS = _cells("""
    policy measure:       base    advanced zcdp  moments
    any epsilon:          123.354 7.450    1.159 0.823
    fed-cdp accuracy:     0.956
    fed-cdp rounds:       100
    constant accuracy:    0.979
    constant rounds:      100
    linear accuracy:      0.984   0.981    0.981 0.981
    linear rounds:        97      95       95    95
    staircase accuracy:   0.983   0.982    0.982 0.982
    staircase rounds:     97      95       95    95
    exponential accuracy: 0.986   0.981    0.983 0.983
    exponential rounds:   97      94       96    96
    cyclic accuracy:      0.982   0.979    0.981 0.979
    cyclic rounds:        81      79       80    80
""")
"""Accuracy on mnist by the policy of the noise scale, until the target epsilon of each accountant."""
