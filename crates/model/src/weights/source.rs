//! From named tensors to the parameters of a module.

use std::collections::{BTreeMap, BTreeSet};

use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{Tensor, TensorData},
};

use super::{
    WeightsError,
    names::{ModulePath, Naming},
};

/// Tensors by their checkpoint name, read one at a time so that no second copy of the model is ever in memory.
pub(crate) trait TensorSource {
    /// Whose names the tensors carry.
    fn naming(&self) -> Naming;

    /// Every tensor there is. A matrix is `[out, in]`, row-major.
    fn shapes(&self) -> &BTreeMap<String, Vec<usize>>;

    /// The values of a tensor that [`shapes`](Self::shapes) lists.
    fn read(&mut self, name: &str) -> Result<Vec<f32>, WeightsError>;

    /// The files the tensors come from, for messages.
    fn files(&self) -> String;
}

/// Replaces every parameter of `module` that the source's naming knows by the tensor of its name; parameters that were not
/// initialised yet never are.
pub(crate) fn fill<M: Module, S: TensorSource>(module: M, source: &mut S) -> Result<M, WeightsError> {
    let mut filler = Filler { source, path: ModulePath::default(), used: BTreeSet::new(), error: None };
    let module = module.map(&mut filler);
    let Filler { used, error, .. } = filler;
    if let Some(error) = error {
        return Err(error);
    }
    let unexpected =
        source.shapes().keys().filter(|name| !used.contains(*name) && !source.naming().is_redundant(name));
    let unexpected: Vec<&str> = unexpected.map(String::as_str).collect();
    if !unexpected.is_empty() {
        let shown = unexpected.iter().take(5).copied().collect::<Vec<_>>().join(", ");
        let more =
            if unexpected.len() > 5 { format!(" and {} more", unexpected.len() - 5) } else { String::new() };
        return Err(WeightsError::UnexpectedTensors { names: shown + &more, files: source.files() });
    }
    Ok(module)
}

struct Filler<'s, S> {
    source: &'s mut S,
    path: ModulePath,
    used: BTreeSet<String>,
    /// The first failure; from there on nothing is read.
    error: Option<WeightsError>,
}

impl<S: TensorSource> Filler<'_, S> {
    fn tensor<const D: usize>(
        &mut self,
        name: String,
        param: &Param<Tensor<D>>,
    ) -> Result<Tensor<D>, WeightsError> {
        let shape = param.lazy_shape();
        let mut expected = shape.to_vec();
        if self.path.is_transposed() {
            expected.reverse();
        }
        let Some(found) = self.source.shapes().get(&name) else {
            return Err(WeightsError::MissingTensor { name, files: self.source.files() });
        };
        if *found != expected {
            return Err(WeightsError::Shape { name, found: found.clone(), expected });
        }
        let mut values = self.source.read(&name)?;
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(WeightsError::NotFinite { name, index, value: values[index] });
        }
        if self.path.is_transposed() {
            values = transpose(&values, expected[0], expected[1]);
        }
        self.used.insert(name);
        Ok(Tensor::from_data(TensorData::new(values, shape), &param.lazy_device()))
    }
}

impl<S: TensorSource> ModuleMapper for Filler<'_, S> {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (None, Some(name)) = (&self.error, self.path.name(self.source.naming())) else { return param };
        match self.tensor(name, &param) {
            Ok(tensor) => {
                let id = param.id;
                param.transform_for_load(tensor, id)
            }
            Err(error) => {
                self.error = Some(error);
                param
            }
        }
    }
}

/// `[rows, columns]` to `[columns, rows]`, in tiles that stay in the cache.
fn transpose(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    const TILE: usize = 32;
    let mut out = vec![0.0; values.len()];
    for top in (0..rows).step_by(TILE) {
        for left in (0..columns).step_by(TILE) {
            for row in top..rows.min(top + TILE) {
                for column in left..columns.min(left + TILE) {
                    out[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::transpose;

    #[test]
    fn transpose_swaps_rows_and_columns() {
        let (rows, columns) = (35, 70);
        let values: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
        let out = transpose(&values, rows, columns);
        assert!((0..rows).all(|r| (0..columns).all(|c| out[c * rows + r] == values[r * columns + c])));
        assert_eq!(transpose(&out, columns, rows), values);
    }
}
