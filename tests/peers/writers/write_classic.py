#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_classic.py FOLDER - what people keep of scikit-learn, XGBoost and LightGBM: fitted models by pickle and joblib, and
the libraries' own formats. For genuine.py: no tensors are compared."""

import os
import pickle
import sys
import warnings

import joblib
import lightgbm
import numpy as np
import sklearn
import xgboost
from expect import Files
from sklearn import (
    cluster,
    decomposition,
    ensemble,
    feature_extraction,
    impute,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

os.environ["OMP_NUM_THREADS"] = "1"
warnings.filterwarnings("ignore")
files = Files(
    "scikit-learn %s, xgboost %s, lightgbm %s"
    % (sklearn.__version__, xgboost.__version__, lightgbm.__version__)
)
rng = np.random.default_rng(44)
x = rng.standard_normal((60, 5))
y = (x[:, 0] > 0).astype(int)


def keep(name, model):
    for protocol in (2, 4):
        files.path("%s-%d.pkl" % (name, protocol)).write_bytes(pickle.dumps(model, protocol=protocol))
        files.add("%s-%d.pkl" % (name, protocol))
    joblib.dump(model, files.path(name + ".joblib"))
    files.add(name + ".joblib")
    joblib.dump(model, files.path(name + ".joblib.z"), compress=3)
    files.add(name + ".joblib.z")


MODELS = {
    "linear": linear_model.LinearRegression(),
    "logistic": linear_model.LogisticRegression(),
    "ridge": linear_model.Ridge(),
    "sgd": linear_model.SGDClassifier(),
    "svc": svm.SVC(probability=False),
    "linearsvc": svm.LinearSVC(),
    "tree": tree.DecisionTreeClassifier(max_depth=3),
    "forest": ensemble.RandomForestClassifier(3, max_depth=3),
    "boosting": ensemble.GradientBoostingClassifier(n_estimators=3),
    "histogram": ensemble.HistGradientBoostingClassifier(max_iter=3),
    "isolation": ensemble.IsolationForest(n_estimators=3),
    "knn": neighbors.KNeighborsClassifier(),
    "bayes": naive_bayes.GaussianNB(),
    "mlp": neural_network.MLPClassifier((4,), max_iter=5),
    "kmeans": cluster.KMeans(2, n_init=1),
    "pca": decomposition.PCA(2),
    "scaler": preprocessing.StandardScaler(),
    "minmax": preprocessing.MinMaxScaler(),
    "imputer": impute.SimpleImputer(),
    "pipeline": pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()),
    "onehot": preprocessing.OneHotEncoder(),
}
for name, model in MODELS.items():
    keep(name, model.fit(x, y))
keep("tfidf", feature_extraction.text.TfidfVectorizer().fit(["a text of words", "another text"]))
keep("labels", preprocessing.LabelEncoder().fit(["a", "b"]))
for name, model in (
    ("xgb", xgboost.XGBClassifier(n_estimators=2, max_depth=2)),
    ("lgbm", lightgbm.LGBMClassifier(n_estimators=2, verbose=-1)),
):
    keep(name, model.fit(x, y))
booster = xgboost.XGBClassifier(n_estimators=2, max_depth=2).fit(x, y)
for end in ("json", "ubj"):
    booster.save_model(files.path("xgboost." + end))
    files.add("xgboost." + end)
lightgbm.LGBMClassifier(n_estimators=2, verbose=-1).fit(x, y).booster_.save_model(
    str(files.path("lightgbm.txt"))
)
files.add("lightgbm.txt")
sys.exit(files.close())
