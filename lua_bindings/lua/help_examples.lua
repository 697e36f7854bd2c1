-- Examples that help() shows, by the first word of a signature: lines that begin with "> " are typed at the prompt, the
-- others are what it prints. spec/help_spec.lua runs them.

local examples = {
  ["tide.tensor"] = [=[
> tide.tensor{{1, 2}, {3, 4}}
tensor([[1, 2],
        [3, 4]])]=],
  ["tide.zeros"] = [=[
> tide.zeros(2, 3)
tensor([[0., 0., 0.],
        [0., 0., 0.]])]=],
  ["tide.ones"] = [[
> tide.ones(3, {dtype = tide.int32})
tensor([1, 1, 1], dtype=tide.int32)]],
  ["tide.full"] = [=[
> tide.full({2, 2}, 7)
tensor([[7, 7],
        [7, 7]])]=],
  ["tide.arange"] = [[
> tide.arange(1, 6)
tensor([1, 2, 3, 4, 5])]],
  ["tide.linspace"] = [[
> tide.linspace(0, 1, 5)
tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])]],
  ["tide.eye"] = [=[
> tide.eye(2)
tensor([[1., 0.],
        [0., 1.]])]=],
  ["x:sum"] = [[
> tide.tensor{{1, 2}, {3, 4}}:sum(1)
tensor([4, 6])]],
  ["x:mean"] = [[
> tide.tensor{1., 2., 6.}:mean()
tensor(3.)]],
  ["x:max"] = [[
> tide.tensor{3, 9, 4}:max(1)
tensor(9)    tensor(2)]],
  ["x:min"] = [[
> tide.tensor{3, 9, 4}:min(1)
tensor(3)    tensor(1)]],
  ["x:argmax"] = [[
> tide.tensor{3, 9, 4}:argmax()
tensor(2)]],
  ["x:cumsum"] = [[
> tide.tensor{1, 2, 3}:cumsum(1)
tensor([1, 3, 6])]],
  ["x:view"] = [=[
> tide.arange(1, 7):view(2, 3)
tensor([[1, 2, 3],
        [4, 5, 6]])]=],
  ["x:reshape"] = [=[
> tide.arange(1, 7):reshape(3, -1)
tensor([[1, 2],
        [3, 4],
        [5, 6]])]=],
  ["x:permute"] = [[
> tide.zeros(2, 3, 4):permute(3, 1, 2).shape
{4, 2, 3}]],
  ["x:t"] = [=[
> tide.tensor{{1, 2}, {3, 4}}:t()
tensor([[1, 3],
        [2, 4]])]=],
  ["x:squeeze"] = [[
> tide.zeros(1, 3, 1):squeeze().shape
{3}]],
  ["x:unsqueeze"] = [[
> tide.zeros(3):unsqueeze(1).shape
{1, 3}]],
  ["x:expand"] = [=[
> tide.tensor{{1}, {2}}:expand(2, 3)
tensor([[1, 1, 1],
        [2, 2, 2]])]=],
  ["tide.cat"] = [[
> tide.cat({tide.ones(2), tide.zeros(1)})
tensor([1., 1., 0.])]],
  ["tide.stack"] = [=[
> tide.stack{tide.ones(2), tide.zeros(2)}
tensor([[1., 1.],
        [0., 0.]])]=],
  ["tide.where"] = [[
> x = tide.tensor{-1, 2, -3}
> tide.where(x:gt(0), x, 0)
tensor([0, 2, 0])]],
  ["x:matmul"] = [[
> a = tide.tensor{{1., 2.}, {3., 4.}}
> a:matmul(tide.tensor{1., 1.})
tensor([3., 7.])]],
  ["x:sort"] = [[
> tide.tensor{3, 1, 2}:sort()
tensor([1, 2, 3])    tensor([2, 3, 1])]],
  ["x:topk"] = [[
> tide.tensor{3, 9, 4}:topk(2)
tensor([9, 4])    tensor([2, 3])]],
  ["x:item"] = [[
> tide.tensor{1.5}:item() + 1
2.5]],
  ["x:totable"] = [[
> tide.tensor{1, 2}:totable()
{1, 2}]],
  ["x:to"] = [[
> tide.tensor{1.5, 2.5}:to(tide.int32)
tensor([1, 2], dtype=tide.int32)]],
  ["x:clone"] = [[
> x = tide.zeros(2)
> y = x:clone()
> y[1] = 5
> x
tensor([0., 0.])]],
  ["x:index_select"] = [[
> tide.tensor{10, 20, 30}:index_select(1, tide.tensor{3, 1})
tensor([30, 10])]],
  ["x:gather"] = [=[
> tide.tensor{{1, 2}, {3, 4}}:gather(2, tide.tensor{{2}, {1}})
tensor([[2],
        [3]])]=],
  ["x:masked_select"] = [[
> x = tide.tensor{1, -2, 3}
> x:masked_select(x:gt(0))
tensor([1, 3])]],
  ["x:nonzero"] = [=[
> tide.tensor{0, 5, 0, 7}:nonzero()
tensor([[2],
        [4]])]=],
  ["x:softmax"] = [[
> tide.tensor{1., 1., 2.}:softmax(1)
tensor([0.2119, 0.2119, 0.5761])]],
  ["x:std"] = [[
> tide.tensor{1., 2., 3.}:std()
tensor(1.)]],
  ["x:var"] = [[
> tide.tensor{1., 2., 3.}:var()
tensor(1.)]],
  ["x:norm"] = [[
> tide.tensor{3., 4.}:norm()
tensor(5.)]],
  ["x:flip"] = [[
> tide.tensor{1, 2, 3}:flip(1)
tensor([3, 2, 1])]],
  ["x:roll"] = [[
> tide.tensor{1, 2, 3}:roll(1)
tensor([3, 1, 2])]],
  ["x:tile"] = [[
> tide.tensor{1, 2}:tile(2)
tensor([1, 2, 1, 2])]],
  ["x:unfold"] = [=[
> tide.arange(1, 6):unfold(1, 3, 1)
tensor([[1, 2, 3],
        [2, 3, 4],
        [3, 4, 5]])]=],
  ["tide.einsum"] = [[
> a = tide.tensor{{1., 2.}, {3., 4.}}
> tide.einsum('ij,ij->i', a, a)
tensor([ 5., 25.])]],
  ["tide.kernel"] = [[
> twice = tide.kernel(function(i, x) return x[i] * 2 end)
> twice(3, tide.tensor{1., 2., 3.})
tensor([2., 4., 6.])]],
  ["tide.fuse"] = [[
> f = tide.fuse(function(x) return (x * 2 + 1):exp():sum() end)
> f(tide.zeros(3))
tensor(8.1548)]],
  ["tide.linalg.solve"] = [[
> a = tide.tensor{{2., 0.}, {0., 4.}}
> tide.linalg.solve(a, tide.tensor{2., 4.})
tensor([1., 1.])]],
  ["tide.linalg.inv"] = [=[
> tide.linalg.inv(tide.tensor{{2., 0.}, {0., 4.}})
tensor([[0.5000, 0.0000],
        [0.0000, 0.2500]])]=],
  ["tide.has"] = [[
> tide.has 'Tensor:sum', tide.has 'autograd'
true    false]],
  ["tide.is_tensor"] = [[
> tide.is_tensor(tide.ones(1)), tide.is_tensor(1)
true    false]],
  ["tide.allclose"] = [[
> tide.allclose(tide.ones(2), tide.ones(2) + 1e-9)
true]],
  ["tide.load_csv"] = [=[
> path = os.tmpname()
> tide.save_csv(path, tide.tensor{{1., 2.}, {3., 4.}}, {header = {'x', 'y'}})
> x, names = tide.load_csv(path)
> x
tensor([[1., 2.],
        [3., 4.]])
> names
{'x', 'y'}
> tide.load_csv(path, {columns = 'y'})
tensor([2., 4.])    {'y'}]=],
  ["tide.vec3"] = [[
> v = tide.vec3(1.5, 2, 0)
> v:length()
2.5]],
  ["x:histc"] = [[
> tide.tensor{1., 2., 2., 9.}:histc(3, 0, 9)
tensor([3., 0., 1.])]],
  ["x:unique"] = [[
> tide.tensor{3, 1, 3}:unique()
tensor([1, 3])]],
  ["x:index_add_"] = [[
> tide.zeros(3):index_add_(1, tide.tensor{1, 3, 3}, tide.ones(3))
tensor([1., 0., 2.])]],
  ["tide.clamp"] = [[
> tide.tensor{-2, 0.5, 3}:clamp(0, 1)
tensor([0.0000, 0.5000, 1.0000])]],
  ["tide.exp"] = [[
> tide.tensor{0., 1.}:exp()
tensor([1.0000, 2.7183])]],
  ["tide.add"] = [[
> x = tide.ones(2)
> x:add_(1)
tensor([2., 2.])
> x + 1
tensor([3., 3.])]],
  ["tide.bincount"] = [[
> tide.bincount(tide.tensor{1, 2, 2})
tensor([0, 1, 2])]],
  ["x:conv1d"] = [=[
> tide.tensor{{{1., 2., 3., 4.}}}:conv1d(tide.tensor{{{0.5, 0.5}}})
tensor([[[1.5000, 2.5000, 3.5000]]])]=],
  ["tide.meshgrid"] = [=[
> tide.meshgrid{tide.tensor{1, 2}, tide.tensor{3, 4}}
tensor([[1, 1],
        [2, 2]])
tensor([[3, 4],
        [3, 4]])]=],
  ["tide.square"] = [[
> tide.tensor{2., 3.}:square()
tensor([4., 9.])]],
}

-- help_example(signature): the example of "tide.zeros(sizes...)" or "x:sum(...)", or nil.
function help_example(signature)
  local paren, blank = find(signature, "(") or #signature + 1, find(signature, " ") or #signature + 1
  return examples[sub(signature, 1, (paren < blank and paren or blank) - 1)]
end
