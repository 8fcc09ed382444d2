//! What the tests of this crate share: recorded cases, tensors from nested lists, comparisons.

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use serde_json::Value;

#[path = "../../../../tests/fixtures/recorded.rs"]
#[allow(dead_code)] // it also reads `cases`, for other crates
mod recorded;
pub use recorded::{golden, number};

pub fn device() -> Device {
    Device::flex().autodiff()
}

/// The case's name, for messages.
pub fn name(case: &Value) -> &str {
    case["name"].as_str().unwrap()
}

pub fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}")).iter().map(number).collect()
}

pub fn matrix(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}")).iter().map(numbers).collect()
}

pub fn ids(value: &Value) -> Vec<u32> {
    numbers(value).into_iter().map(|id| id as u32).collect()
}

/// Parses a name as the crate's own configuration would.
pub fn parse<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

pub fn tensor_of(rows: &[Vec<f64>], dtype: DType) -> Tensor<2> {
    let shape = [rows.len(), rows.first().map_or(0, Vec::len)];
    Tensor::from_data(TensorData::new(rows.concat(), shape), (&device(), dtype))
}

pub fn tensor(rows: &[Vec<f64>]) -> Tensor<2> {
    tensor_of(rows, DType::F64)
}

pub fn mask(rows: &[Vec<f64>]) -> Tensor<2, Bool> {
    let flags: Vec<bool> = rows.concat().iter().map(|&value| value != 0.0).collect();
    Tensor::from_data(TensorData::new(flags, [rows.len(), rows[0].len()]), &device())
}

pub fn scalar(tensor: Tensor<1>) -> f64 {
    tensor.into_data_as::<f64>().try_to_vec::<f64>().unwrap()[0]
}

pub fn rows_of(tensor: Tensor<2>) -> Vec<Vec<f64>> {
    let width = tensor.dims()[1];
    let flat = tensor.into_data_as::<f64>().try_to_vec::<f64>().unwrap();
    flat.chunks(width).map(<[f64]>::to_vec).collect()
}

/// The value of `of(x)` and its gradient in `x`.
pub fn with_gradient(x: Tensor<2>, of: impl FnOnce(Tensor<2>) -> Tensor<1>) -> (f64, Vec<Vec<f64>>) {
    let x = x.require_grad();
    let value = of(x.clone());
    let gradient = x.grad(&value.backward()).expect("the value depends on x");
    (scalar(value), rows_of(gradient))
}

/// `|found − expected| <= tolerance · (1 + |expected|)`, non-finite values exactly.
#[track_caller]
pub fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    let same = found == expected || (found.is_nan() && expected.is_nan());
    let close = (found - expected).abs() <= tolerance * (1.0 + expected.abs());
    assert!(same || (expected.is_finite() && close), "{what}: {found}, expected {expected}");
}

#[track_caller]
pub fn assert_rows_close(found: &[Vec<f64>], expected: &[Vec<f64>], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: rows");
    for (r, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{what}: length of row {r}");
        for (t, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert_close(*found, *expected, tolerance, &format!("{what} [{r}, {t}]"));
        }
    }
}
