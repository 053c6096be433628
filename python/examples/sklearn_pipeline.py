"""scikit-learn on nearfield: a graph of neighbours in a pipeline, and a classifier.

    pip install './python[sklearn]'        # in a checkout
    python python/examples/sklearn_pipeline.py
"""

from sklearn.datasets import load_digits
from sklearn.manifold import SpectralEmbedding
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearfield.sklearn import KNeighborsClassifier, KNeighborsTransformer


def main() -> None:
    images, digits = load_digits(return_X_y=True)

    # nearfield finds the neighbours, scikit-learn works on their graph.
    embedding = make_pipeline(
        KNeighborsTransformer(n_neighbors=10, mode="connectivity"),
        SpectralEmbedding(n_components=2, affinity="precomputed", random_state=0),
    )
    print("embedding", embedding.fit_transform(images).shape)

    classifier = make_pipeline(StandardScaler(), KNeighborsClassifier(n_neighbors=5))
    print(f"cross-validated accuracy {cross_val_score(classifier, images, digits, cv=5).mean():.3f}")

    train, test, train_digits, test_digits = train_test_split(images, digits, random_state=0)
    accuracy = classifier.fit(train, train_digits).score(test, test_digits)
    print(f"accuracy on held-out images {accuracy:.3f}")


if __name__ == "__main__":
    main()
